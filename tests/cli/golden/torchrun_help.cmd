# exit 0
adaptdl torchrun --help
