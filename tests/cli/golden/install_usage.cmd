# exit 2
echo 'sched: {replica: 1}' > values.yaml
adaptdl install --image a/b --values values.yaml
adaptdl install --image a/b --set tolerations=x -o yaml
adaptdl install --image :1
adaptdl install --image a/b --kubeconfig none
adaptdl upgrade --timeout soon --kubeconfig none
adaptdl install
