# exit 1
echo '{"name": "stubborn", "phase": "Running"}' | jobs
service adaptdl suspend stubborn
service adaptdl delete stubborn
adaptdl suspend stubborn
