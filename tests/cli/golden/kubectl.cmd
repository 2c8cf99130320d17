# exit 1
# As a plugin of kubectl, which runs it and its completion by these names.
ln -s "$(command -v adaptdl)" kubectl-adaptdl
ln -s "$(command -v adaptdl)" kubectl_complete-adaptdl
./kubectl-adaptdl completion --help
./kubectl-adaptdl tensorboard --help | head -8
./kubectl-adaptdl sl
./kubectl_complete-adaptdl image p
./kubectl_complete-adaptdl ls -o w
KUBECONFIG=$PWD/none ./kubectl_complete-adaptdl describe ''
./kubectl-adaptdl ls --cluster local -A
./kubectl-adaptdl ls --cluster local --selector team=a
KUBECONFIG=$PWD/none ./kubectl-adaptdl ls
