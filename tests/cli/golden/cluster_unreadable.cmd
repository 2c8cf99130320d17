# exit 1
mkdir "$HOME/.kube"
cat > "$HOME/.kube/config" <<'YAML'
current-context: local
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: local, context: {cluster: c}}]
YAML
adaptdl cluster list
adaptdl doctor | grep clusters
echo 'contexts: {' > "$HOME/.kube/config"
adaptdl doctor | grep -A1 clusters
adaptdl cluster list -o json
adaptdl cluster list
