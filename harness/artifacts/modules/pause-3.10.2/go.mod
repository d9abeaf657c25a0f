module vmatrix.dev/artifacts/pause

go 1.24.0
