# exit 2
echo 'sched: {replica: 1}' > values.yaml
adaptdl install --image a/b --values values.yaml
adaptdl install --image a/b --set tolerations=x -o yaml
adaptdl install --image :1
echo 'image: {repository: petuum/adaptdl-sched, tag: 0.2.0}' > chart.yaml
adaptdl install --values chart.yaml -o yaml
adaptdl install --values chart.yaml --image a/b -o yaml | grep -c 'image: a/b$'
adaptdl install --image a/b --kubeconfig none
adaptdl upgrade --timeout soon --kubeconfig none
adaptdl install
