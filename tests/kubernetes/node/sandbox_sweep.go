// Stops and removes every pod of a container runtime, with its network: sandbox-sweep SOCKET.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	within, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	connection, problem := grpc.NewClient(
		"unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(problem)
	runtime := cri.NewRuntimeServiceClient(connection)
	containers, problem := runtime.ListContainers(within, &cri.ListContainersRequest{})
	check(problem)
	for _, one := range containers.Containers {
		runtime.StopContainer(within, &cri.StopContainerRequest{ContainerId: one.Id})
	}
	pods, problem := runtime.ListPodSandbox(within, &cri.ListPodSandboxRequest{})
	check(problem)
	for _, one := range pods.Items {
		_, problem = runtime.StopPodSandbox(within, &cri.StopPodSandboxRequest{PodSandboxId: one.Id})
		warn(problem)
		_, problem = runtime.RemovePodSandbox(within, &cri.RemovePodSandboxRequest{PodSandboxId: one.Id})
		warn(problem)
	}
}

func warn(problem error) {
	if problem != nil {
		fmt.Fprintln(os.Stderr, "sandbox-sweep:", problem)
	}
}

func check(problem error) {
	warn(problem)
	if problem != nil {
		os.Exit(1)
	}
}
