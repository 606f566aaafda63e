module headrace.dev/devcluster/pause

go 1.24
