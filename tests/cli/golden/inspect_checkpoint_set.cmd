# exit 2
checkpoint checkpoints 40
adaptdl inspect checkpoints --set epochs=2
