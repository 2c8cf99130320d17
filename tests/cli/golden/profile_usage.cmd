# exit 2
adaptdl profile
adaptdl profile run.jsonl --applicatoin here
run_of 1 > run.jsonl
adaptdl profile run.jsonl --application a/b
