# exit 1
# A replica of an archive trains on one GPU; a command may use more.
mkdir folder
archive folder/train.pt
printf 'archive: train.pt\nresources: {gpu: 4}\n' > folder/adaptdljob.yaml
service adaptdl submit folder -o json
