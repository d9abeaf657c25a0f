// Command pause holds a pod's namespaces: it waits for a signal to end, and collects children that lost their parent.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// kubeadm's check before an upgrade runs a pod that asks for the version and has to end
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Println("pause 3.10.2")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
	}
}
