// Command kube holds a whole Kubernetes control plane and node in one program.
//
// Its first argument names the part to run; the rest are that part's own, unchanged flags. One
// program instead of seven: the parts share almost all of their code, so a single link keeps the
// download, the build (minutes) and the result (about 140 MB) to a seventh.
//
// Every part is the upstream one, called through the same constructor as its own main package.
// Only etcd is configured here, because its embedding API takes a struct rather than flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// component adapts an upstream command constructor to "run it and return the exit code".
func component(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

var parts = map[string]func() int{
	"dns":         runDNS,
	"etcd":        runEtcd,
	"apiserver":   component(apiserver.NewAPIServerCommand),
	"controllers": component(func() *cobra.Command { return controllers.NewControllerManagerCommand() }),
	"scheduler":   component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":     component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"proxy":       component(func() *cobra.Command { return proxy.NewProxyCommand() }),
	"kubectl":     runKubectl,
}

// runKubectl differs from the daemons: kubectl prints its own errors.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		return 1
	}
	return 0
}

// runEtcd serves a single-member etcd until it fails or is told to stop.
func runEtcd() int {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := flags.String("data-dir", "", "directory of the database (required)")
	client := flags.String("client-url", "http://127.0.0.1:2379", "where clients connect")
	peer := flags.String("peer-url", "http://127.0.0.1:2380", "where peers would connect")
	_ = flags.Parse(os.Args[1:]) // ExitOnError: does not return an error
	if err := serveEtcd(*dir, *client, *peer); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func serveEtcd(dir, client, peer string) error {
	if dir == "" {
		return errors.New("--data-dir is required")
	}
	clientURL, err := url.Parse(client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "warn"
	// A development cluster does not outlive its machine: giving up fsync makes every write of
	// the API server several times quicker.
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = []url.URL{*clientURL}
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}

func names() string {
	all := make([]string, 0, len(parts))
	for name := range parts {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, "|")
}

// usage goes to stderr with exit code 2, as the upstream commands do for bad flags.
func usage() int {
	fmt.Fprintf(os.Stderr, "usage: kube %s [flags]\n", names())
	return 2
}

func main() {
	// Called through a link named kubectl, it is kubectl: users can put the link on their PATH.
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(runKubectl())
	}
	if len(os.Args) < 2 {
		os.Exit(usage())
	}
	run, known := parts[os.Args[1]]
	if !known {
		os.Exit(usage())
	}
	os.Args = append([]string{os.Args[0]}, os.Args[2:]...)
	os.Exit(run())
}
