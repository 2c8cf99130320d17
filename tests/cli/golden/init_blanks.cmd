# exit 0
adaptdl init linear 'my folder' -o json
adaptdl init library "it's mine" > files
