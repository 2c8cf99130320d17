# exit 1
adaptdl cluster list
adaptdl cluster show
service adaptdl cluster show
adaptdl cluster use local
cat "$HOME/.config/adaptdl/config.yaml"
adaptdl cluster show -o json
echo 'cluster: prod' > "$HOME/.config/adaptdl/config.yaml"
adaptdl ls
adaptdl ls --cluster local
ADAPTDL_CLUSTER=other adaptdl ls
adaptdl ls --cluster local -n team
mkdir "$HOME/.kube"
cat > "$HOME/.kube/config" <<'YAML'
current-context: lab
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: lab, context: {cluster: c}}, {name: prod, context: {cluster: c, namespace: team}}]
YAML
adaptdl cluster list
adaptdl cluster list --cluster kubernetes -o json
adaptdl cluster use lab
adaptdl cluster use nowhere
adaptdl cluster list
adaptdl policy show
