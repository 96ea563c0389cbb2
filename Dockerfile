# toolmend in front of the Ollama of another container; see compose.yaml.
FROM python:3.13-slim
COPY pyproject.toml README.md LICENSE /src/
COPY addon /src/addon
RUN pip install --no-cache-dir /src && rm -r /src && useradd --create-home toolmend
USER toolmend
EXPOSE 11434
# All interfaces of the container: what is reachable from outside is what is published.
ENTRYPOINT ["toolmend", "--listen-host", "0.0.0.0", "-p", "11434", "--set", "keep_host_header=true"]
CMD ["--mode", "reverse:http://ollama:11434"]
