# exit 0
adaptdl tensorboard
