"""Stand between mitmproxy and the core: the only folder that imports mitmproxy."""
