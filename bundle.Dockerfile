# The image of the bundle in bundle/, for tools which build it with docker. The project itself makes its
# images in Go, without docker.
FROM scratch

LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=porpoise
LABEL operators.operatorframework.io.bundle.channels.v1=candidate-v1
LABEL operators.operatorframework.io.bundle.channel.default.v1=candidate-v1

COPY bundle /
