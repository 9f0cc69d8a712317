# The `plan` command in an image: docker run --rm -it -v "$PWD:/work" planloop apply task.yaml
# Commands of a plan run inside this container; derive from it to add the programs that they need.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY . /src
RUN python3 -m venv /opt/planloop && /opt/planloop/bin/pip install --no-cache-dir "/src[litellm]"

FROM ${BASE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap ca-certificates git \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/planloop /opt/planloop
ENV PATH=/opt/planloop/bin:$PATH
WORKDIR /work
ENTRYPOINT ["plan"]
CMD ["--help"]
