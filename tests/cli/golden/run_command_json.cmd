# exit 0
# Events alone are on standard output.
adaptdl run -o json -- echo hello | grep -o '"event":"[a-z]*"'
