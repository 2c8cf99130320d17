# exit 0
adaptdl tensorboard proxy --help
