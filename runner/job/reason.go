package job

// Reason is why a job ended other than by its own exit. The empty Reason means
// that the job's last step ended by itself.
type Reason string

// Reasons are stable: programs match on them, and docs/reasons.md explains each.
const (
	ReasonNone               Reason = ""
	ReasonSandboxUnavailable Reason = "sandbox_unavailable"
	ReasonImageUnknown       Reason = "image_unknown"
	ReasonPolicyUnsupported  Reason = "policy_unsupported"
	ReasonTimeoutWall        Reason = "timeout_wall"
	ReasonLimitMemory        Reason = "limit_memory"
	ReasonLimitPids          Reason = "limit_pids"
	ReasonLimitDisk          Reason = "limit_disk"
	ReasonLimitOutput        Reason = "limit_output"
	ReasonEgressDenied       Reason = "egress_denied"
	ReasonRunnerLost         Reason = "runner_lost"
	ReasonOutcomeUnknown     Reason = "outcome_unknown"
	ReasonCancelled          Reason = "cancelled"
	ReasonExpired            Reason = "expired"
	ReasonRejected           Reason = "rejected"
	ReasonInternal           Reason = "internal"
)
