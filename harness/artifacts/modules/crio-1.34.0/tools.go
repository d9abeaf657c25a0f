//go:build tools

// Package tools names what is built from this module.
package tools

import (
	_ "github.com/cri-o/cri-o/cmd/crio"
)
