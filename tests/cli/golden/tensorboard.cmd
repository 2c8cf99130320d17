# exit 1
adaptdl tensorboard list
adaptdl tensorboard create curves
adaptdl tensorboard create old
some_jobs
echo 12345678 > "$ADAPTDL_LOCAL_STATE/tensorboard/curves/file"
adaptdl tensorboard list
adaptdl tensorboard list -o json
adaptdl tensorboard delete old
adaptdl tensorboard delete curves
echo $?
adaptdl tensorboard create more --nodeport
adaptdl tensorboard proxy curve
