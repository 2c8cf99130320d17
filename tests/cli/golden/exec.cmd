# exit 3
some_jobs
job="$ADAPTDL_LOCAL_STATE/jobs/digits-x7k2p"
mkdir -p "$job/project"
cat > "$job/job.json" <<END
{"format": 2,
 "spec": {"format": 1, "kind": "command", "program": "true", "environment": {"COLOUR": "blue"}},
 "grant": {"name": "digits-x7k2p", "directory": "$job/project", "tensorboard": null}}
END
adaptdl exec digits-x7k2p -- sh -c 'pwd; echo $COLOUR $ADAPTDL_JOB_ID $ADAPTDL_CHECKPOINT_PATH'
adaptdl exec digits-x7k2p -- ./nothing
echo $?
adaptdl exec digits-x7k2p --replica 0 -- true
adaptdl exec digits-x7k2p -- sh -c 'exit 3'
