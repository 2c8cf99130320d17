# exit 1
some_jobs
job="$ADAPTDL_LOCAL_STATE/jobs/broken-99999"
mkdir -p "$job/output/deep" "$job/logs"
echo model > "$job/output/model.pt"
echo log > "$job/logs/replica-0.log"
ln -s /etc/passwd "$job/output/deep/passwd"
adaptdl cp broken-99999:/output/model.pt .
adaptdl cp broken-99999:/ everything -o json
find . | sort
echo new > new
adaptdl cp new broken-99999:/output/
cat "$job/output/new"
adaptdl cp broken-99999:/output/../job.json .
echo $?
adaptdl cp broken-99999:/job.json .
