# exit 0
cat > values.yaml <<'YAML'
image: {repository: registry.example/adaptdl, tag: v1}
sched: {resources: {limits: null}}
YAML
adaptdl install --values values.yaml -o yaml | grep -A 3 '^          resources:$\|values.json'
image() { adaptdl install "$@" -o yaml | grep ' image:'; }
image --image r.example/adaptdl --set image.tag=1.10
image --image r.example/adaptdl:v1 --set image.tag=1234567e8
echo 'image: {repository: r.example/adaptdl, tag: 2024.10, digest: "sha256:12"}' > one.yaml
echo 'image: {tag: 2024.20}' > two.yaml
image --values one.yaml
image --values one.yaml --values two.yaml
image --values one.yaml --set image.tag=007
image --values one.yaml --set image.tag=v2 --set image.digest=sha256:34
