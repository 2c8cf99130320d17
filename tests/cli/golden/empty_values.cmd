# exit 2
some_jobs
adaptdl wait ""
adaptdl ls --all=
adaptdl logs --tail= digits-x7k2p
adaptdl ls --cluster= -q -o jsonpath='{.jobs[*].name}'
echo
adaptdl ls -o
