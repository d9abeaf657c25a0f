//go:build tools

// Package tools names what is built from this module.
package tools

import (
	_ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
)
