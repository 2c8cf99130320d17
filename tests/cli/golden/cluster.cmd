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
