# exit 0
cat > values.yaml <<'YAML'
image: {repository: registry.example/adaptdl, tag: "1"}
sched: {policy: pollux}
YAML
adaptdl install --values values.yaml --set sched.replicas=3 -o yaml | grep -A 3 'image:\|replicas:\|values.json'
