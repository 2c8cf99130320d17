# exit 0
mkdir project
cat > project/adaptdljob.yaml <<'YAML'
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: mnist-}
spec:
  minReplicas: 1
  template:
    spec:
      nodeSelector: {zone: a}
      containers:
        - name: main
          image: mnist
          command: [python3, /root/mnist.py]
          args: [--epochs, "3"]
YAML
echo 'print()' > project/mnist.py
adaptdl submit project -f - --dry-run -o json < project/adaptdljob.yaml | python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["name_prefix"], s["program"], s["arguments"], s["min_replicas"])'
