# exit 100
echo '{"name": "true-abcde", "phase": "Failed", "ended_ago_s": 1, "reason": "Crashed", "message": "exit code 1"}' | jobs
service adaptdl submit -q --wait -- true
