# exit 100
# The answer names a job that is there already, and has failed.
echo '{"name": "true-abcde", "phase": "Failed", "ended_ago_s": 1, "reason": "Crashed", "message": "exit code 1"}' | jobs
mkdir "$ADAPTDL_LOCAL_STATE/jobs/true-abcde/logs"
echo working > "$ADAPTDL_LOCAL_STATE/jobs/true-abcde/logs/replica-0.log"
service adaptdl submit --follow -- true
