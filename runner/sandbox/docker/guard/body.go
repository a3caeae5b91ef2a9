package guard

// schemas are the keys that a client's bodies may have. What the backend never sets
// may be there without a value, as the client library writes it, and isn't passed on.
var schemas = map[string]keys{
	"create": zeros(keys{
		"Hostname": "", "User": "", "AttachStdin": "", "AttachStdout": "", "AttachStderr": "", "OpenStdin": "", "StdinOnce": "",
		"Env": "", "Healthcheck": "healthcheck", "Image": "", "WorkingDir": "", "Entrypoint": "", "Labels": "", "HostConfig": "host",
	}, "Domainname", "ExposedPorts", "Tty", "Cmd", "ArgsEscaped", "Volumes", "NetworkDisabled", "MacAddress", "OnBuild", "StopSignal",
		"StopTimeout", "Shell", "NetworkingConfig"),
	"healthcheck": zeros(keys{"Test": ""}, "Interval", "Timeout", "StartPeriod", "StartInterval", "Retries"),
	"host": zeros(keys{
		"LogConfig": "log", "NetworkMode": "", "RestartPolicy": "restart", "Annotations": "", "CapAdd": "", "CapDrop": "", "IpcMode": "",
		"ReadonlyRootfs": "", "SecurityOpt": "", "Tmpfs": "", "Runtime": "", "Memory": "", "MemorySwap": "",
		"NanoCpus": "", "PidsLimit": "",
		"Mounts": "mount",
	}, "Binds", "ContainerIDFile", "PortBindings", "AutoRemove", "VolumeDriver", "VolumesFrom", "ConsoleSize", "CgroupnsMode", "Dns",
		"DnsOptions", "DnsSearch", "ExtraHosts",
		"GroupAdd", "Cgroup", "Links", "OomScoreAdj", "PidMode", "Privileged", "PublishAllPorts",
		"StorageOpt", "UTSMode", "UsernsMode", "ShmSize", "Sysctls", "Isolation", "CpuShares", "CgroupParent", "BlkioWeight",
		"BlkioWeightDevice", "BlkioDeviceReadBps", "BlkioDeviceWriteBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps", "CpuPeriod",
		"CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime", "CpusetCpus", "CpusetMems", "Devices", "DeviceCgroupRules", "DeviceRequests",
		"KernelMemory", "KernelMemoryTCP", "MemoryReservation", "MemorySwappiness", "OomKillDisable", "Ulimits", "CpuCount", "CpuPercent",
		"IOMaximumIOps", "IOMaximumBandwidth", "MaskedPaths", "ReadonlyPaths", "Init"),
	"log":     zeros(keys{"Type": ""}, "Config"),
	"restart": zeros(keys{"Name": ""}, "MaximumRetryCount"),
	"mount": zeros(keys{"Type": "", "Source": "", "Target": "", "ReadOnly": "", "VolumeOptions": "volumeOptions"},
		"Consistency", "BindOptions", "ImageOptions", "TmpfsOptions", "ClusterOptions"),
	"volumeOptions": zeros(keys{"NoCopy": ""}, "Labels", "DriverConfig", "Subpath"),
	"volume":        zeros(keys{"Name": "", "Driver": "", "Labels": ""}, "DriverOpts", "ClusterVolumeSpec"),
}

func zeros(k keys, names ...string) keys {
	for _, n := range names {
		k[n] = neutral
	}
	return k
}

// createBody is all that the guard ever asks an engine to make a container of.
type createBody struct {
	Hostname     string `json:",omitempty"`
	User         string
	AttachStdin  bool     `json:",omitempty"`
	AttachStdout bool     `json:",omitempty"`
	AttachStderr bool     `json:",omitempty"`
	OpenStdin    bool     `json:",omitempty"`
	StdinOnce    bool     `json:",omitempty"`
	Env          []string `json:",omitempty"`
	Healthcheck  *healthcheck
	Image        string
	WorkingDir   string
	Entrypoint   []string
	Labels       map[string]string
	HostConfig   *hostConfig
}

type healthcheck struct{ Test []string }

type hostConfig struct {
	LogConfig      struct{ Type string }
	NetworkMode    string
	RestartPolicy  struct{ Name string }
	Annotations    map[string]string `json:",omitempty"`
	CapAdd         []string
	CapDrop        []string
	IpcMode        string
	ReadonlyRootfs bool
	SecurityOpt    []string
	Tmpfs          map[string]string `json:",omitempty"`
	Runtime        string
	Memory         int64       `json:",omitempty"`
	MemorySwap     int64       `json:",omitempty"`
	NanoCpus       int64       `json:",omitempty"`
	PidsLimit      *int64      `json:",omitempty"`
	Mounts         []mountBody `json:",omitempty"`
}

type mountBody struct {
	Type, Source, Target string
	ReadOnly             bool           `json:",omitempty"`
	VolumeOptions        *volumeOptions `json:",omitempty"`
}

type volumeOptions struct{ NoCopy bool }

type volumeBody struct {
	Name, Driver string
	Labels       map[string]string
}
