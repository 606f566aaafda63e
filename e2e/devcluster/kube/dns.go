package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// runDNS serves the cluster's zone with CoreDNS until it is told to stop.
//
// Only the plugins that this zone needs are linked: the upstream program also carries the clients
// of three cloud providers, and this cluster has no way out to forward a foreign name to.
func runDNS() int {
	flags := flag.NewFlagSet("dns", flag.ExitOnError)
	conf := flags.String("conf", "", "path of the Corefile (required)")
	_ = flags.Parse(os.Args[1:]) // ExitOnError: does not return an error
	if err := serveDNS(*conf); err != nil {
		fmt.Fprintln(os.Stderr, "dns:", err)
		return 1
	}
	return 0
}

func serveDNS(conf string) error {
	contents, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	caddy.Quiet = true
	dnsserver.Quiet = true
	instance, err := caddy.Start(caddy.CaddyfileInput{
		Contents:       contents,
		Filepath:       conf,
		ServerTypeName: "dns",
	})
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	return instance.Stop()
}
