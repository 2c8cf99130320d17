# exit 2
adaptdl operator --only controller,allocater
adaptdl operator --only ,
adaptdl operator --only ""
