package smoke

func controlEntries() []Entry {
	return []Entry{
		reach{
			Entry: Entry{ID: "H1-services", Title: "no service of the operator can be reached", Weak: onNetwork},
			targets: func(*World) []Target {
				return []Target{
					tcp("svc-valkey", "10.99.0.1:6379"), tcp("svc-docker", "10.99.0.1:2375"), tcp("svc-docker-tls", "172.17.0.1:2376"),
					tcp("svc-kubelet", "10.99.0.1:10250"), tcp("svc-metrics", "10.99.0.1:9090"), tcp("svc-postgres", "10.99.0.1:5432"), tcp("svc-ssh", "10.99.0.1:22"),
				}
			},
		}.entry(),
	}
}
