# exit 0
adaptdl ls
live digits adaptdl ls
live digits adaptdl ls -o json
adaptdl ls --all
adaptdl ls -o json
