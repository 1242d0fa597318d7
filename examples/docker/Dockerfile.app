# The web app. Build it in the root of the repository:
#   docker build -f examples/docker/Dockerfile.app -t rewardharness-app .
#   docker run -p 127.0.0.1:7860:7860 --env-file app.env -v rh-home:/home/rh/.rewardharness rewardharness-app
# app.env has keys of models, if any. Where another name than localhost leads to the app: RH_ALLOW_HOST=name[:port]
FROM python:3.12-slim

WORKDIR /opt/rewardharness
COPY requirements.txt pyproject.toml README.md LICENSE ./
COPY examples/docker/constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt
COPY rewardharness rewardharness
COPY app app
COPY hub_templates hub_templates
RUN pip install --no-cache-dir --no-deps .

RUN useradd --create-home --uid 1000 rh
USER rh
RUN mkdir /home/rh/.rewardharness
VOLUME /home/rh/.rewardharness
WORKDIR /home/rh
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/', timeout=4)"]
ENTRYPOINT ["rh", "app", "--host", "0.0.0.0", "--port", "7860"]
