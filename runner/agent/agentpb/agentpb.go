// Package agentpb holds the messages of the agent protocol, generated from
// agent.proto.
package agentpb

//go:generate go -C ../../../tools run ./protogen -out ../runner/agent/agentpb ../runner/agent/agentpb/agent.proto
