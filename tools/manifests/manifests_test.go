// Package manifests checks templates/kubernetes against the API's own types and its
// pod security standards. It is here and not beside them, so that quavon's module does
// not depend on Kubernetes.
package manifests_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

const dir = "../../templates/kubernetes"

// kinds are those that the manifests may have.
var kinds = map[string]func() metav1.Object{
	"v1/Namespace":                                  func() metav1.Object { return new(corev1.Namespace) },
	"v1/Service":                                    func() metav1.Object { return new(corev1.Service) },
	"v1/ServiceAccount":                             func() metav1.Object { return new(corev1.ServiceAccount) },
	"apps/v1/DaemonSet":                             func() metav1.Object { return new(appsv1.DaemonSet) },
	"apps/v1/Deployment":                            func() metav1.Object { return new(appsv1.Deployment) },
	"networking.k8s.io/v1/NetworkPolicy":            func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"node.k8s.io/v1/RuntimeClass":                   func() metav1.Object { return new(nodev1.RuntimeClass) },
	"policy/v1/PodDisruptionBudget":                 func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"kustomize.config.k8s.io/v1beta1/Kustomization": func() metav1.Object { return new(kustomization) },
}

// kustomization has what ours uses of kustomize's format.
type kustomization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Resources []string `json:"resources"`
	Images    []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		Digest  string `json:"digest"`
	} `json:"images"`
}

// decode reads a file's documents into the types of the API. A field that isn't theirs,
// or comes twice, is an error.
func decode(data []byte) (list []metav1.Object, err error) {
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := sigsyaml.Unmarshal(doc, &kind); err != nil {
			return nil, err
		}
		name := kind.APIVersion + "/" + kind.Kind
		newObject, ok := kinds[name]
		if !ok {
			return nil, errors.New(name + " is none of the kinds that are known here")
		}
		o := newObject()
		if err := strict(doc, o); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
}

// strict decodes as an API server does for fieldValidation=Strict: names are compared
// with their case, which sigs.k8s.io/yaml's own strict decoder doesn't.
func strict(doc []byte, o any) error {
	text, err := sigsyaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(text, o)
	return errors.Join(append(strict, err)...)
}

func load(t *testing.T) map[string][]metav1.Object {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("manifests: %v, %v", paths, err)
	}
	files := map[string][]metav1.Object{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if files[filepath.Base(path)], err = decode(data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	return files
}

// all are the objects of one type.
func all[T metav1.Object](t *testing.T) (list []T) {
	t.Helper()
	for _, objects := range load(t) {
		for _, o := range objects {
			if x, ok := o.(T); ok {
				list = append(list, x)
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("no %T in the manifests", *new(T))
	}
	return list
}

// A decoder that lets anything pass would let the manifests pass too.
func TestWrongManifestsAreFound(t *testing.T) {
	right, err := os.ReadFile(filepath.Join(dir, "runner.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(right); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, right, wrong, want string }{
		{"field", "readOnlyRootFilesystem:", "readOnlyRootFileSystem:", `unknown field "spec.template.spec.initContainers[0].securityContext.readOnlyRootFileSystem"`},
		{"place", "  updateStrategy:", "  strategy:", `unknown field "spec.strategy"`},
		{"type", "terminationGracePeriodSeconds: 90", "terminationGracePeriodSeconds: 90s", "cannot unmarshal string"},
		{"twice", "      enableServiceLinks: false", "      enableServiceLinks: false\n      enableServiceLinks: false", "already set in map"},
		{"quantity", "memory: 2Gi", "memory: 2GiB", "quantities must match"},
		{"kind", "kind: DaemonSet", "kind: DemonSet", "none of the kinds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wrong := bytes.Replace(right, []byte(tt.right), []byte(tt.wrong), 1)
			if bytes.Equal(wrong, right) {
				t.Fatalf("%q isn't in the manifest", tt.right)
			}
			if _, err := decode(wrong); err == nil || !bytes.Contains([]byte(err.Error()), []byte(tt.want)) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestKustomizationNamesEveryFile(t *testing.T) {
	k := all[*kustomization](t)[0]
	files := load(t)
	delete(files, "kustomization.yaml")
	for _, name := range k.Resources {
		if files[name] == nil {
			t.Errorf("%s is named and isn't there", name)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("%s isn't named", name)
	}
}

// pods are the pod templates, by namespace and name.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	list := map[string]corev1.PodTemplateSpec{}
	for _, d := range all[*appsv1.DaemonSet](t) {
		list[d.Namespace+"/"+d.Name] = d.Spec.Template
		selects(t, d.Name, d.Spec.Selector, d.Spec.Template.Labels)
	}
	for _, d := range all[*appsv1.Deployment](t) {
		list[d.Namespace+"/"+d.Name] = d.Spec.Template
		selects(t, d.Name, d.Spec.Selector, d.Spec.Template.Labels)
	}
	return list
}

// selects is what the API demands of a controller: it must find the pods it makes.
func selects(t *testing.T, name string, selector *metav1.LabelSelector, have map[string]string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(have)) {
		t.Errorf("%s selects %v, its pods have %v (%v)", name, s, have, err)
	}
}

// The admission of a cluster decides by the same code.
func TestPodsMeetTheStandards(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	forbidden := map[string][]string{}
	for name, pod := range pods(t) {
		for _, r := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				forbidden[name] = append(forbidden[name], r.ForbiddenReason+": "+r.ForbiddenDetail)
			}
		}
	}
	want := map[string][]string{"quavon-runner/quavon-runner": {
		`restricted volume types: volumes "docker", "state", "machine-id" use restricted volume type "hostPath"`,
	}}
	if diff := cmp.Diff(want, forbidden); diff != "" {
		t.Errorf("what the restricted standard forbids (-want +got):\n%s", diff)
	}
}

func TestNamespacesEnforceTheStandards(t *testing.T) {
	got := map[string]string{}
	for _, n := range all[*corev1.Namespace](t) {
		got[n.Name] = n.Labels[api.EnforceLevelLabel]
		for _, label := range []string{api.AuditLevelLabel, api.WarnLevelLabel} {
			if n.Labels[label] != "restricted" {
				t.Errorf("%s: %s is %q", n.Name, label, n.Labels[label])
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"quavon": "restricted", "quavon-runner": "privileged"}, got); diff != "" {
		t.Errorf("enforced (-want +got):\n%s", diff)
	}
}

// reach says which pods a policy's peer is, from a policy of the namespace.
func reach(namespace string, peer networkingv1.NetworkPolicyPeer) string {
	if peer.IPBlock != nil {
		return peer.IPBlock.CIDR
	}
	if peer.NamespaceSelector != nil {
		namespace = peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
	}
	s, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
	if err != nil || s.Empty() || namespace == "" {
		return "anything"
	}
	return namespace + " " + s.String()
}

func TestNetworkPoliciesLetOutNothingElse(t *testing.T) {
	var denied, ways []string
	for _, p := range all[*networkingv1.NetworkPolicy](t) {
		if len(p.Spec.PodSelector.MatchLabels) == 0 && len(p.Spec.PolicyTypes) == 2 && len(p.Spec.Egress)+len(p.Spec.Ingress) == 0 {
			denied = append(denied, p.Namespace)
		}
		for _, rule := range p.Spec.Egress {
			for _, peer := range rule.To {
				for _, port := range rule.Ports {
					ways = append(ways, fmt.Sprint(p.Name, " > ", reach(p.Namespace, peer), " ", *port.Protocol, " ", port.Port))
				}
			}
		}
		for _, rule := range p.Spec.Ingress {
			for _, peer := range rule.From {
				for _, port := range rule.Ports {
					ways = append(ways, fmt.Sprint(p.Name, " < ", reach(p.Namespace, peer), " ", *port.Protocol, " ", port.Port))
				}
			}
		}
	}
	slices.Sort(denied)
	if diff := cmp.Diff([]string{"quavon", "quavon-runner"}, denied); diff != "" {
		t.Errorf("denied by default (-want +got):\n%s", diff)
	}
	slices.Sort(ways)
	want := []string{
		"egress < quavon-runner app.kubernetes.io/name=quavon-runner TCP 3128",
		"egress > 0.0.0.0/0 TCP 443",
		"egress > 0.0.0.0/0 TCP 80",
		"egress > ::/0 TCP 443",
		"egress > ::/0 TCP 80",
		"egress > kube-system k8s-app=kube-dns TCP 53",
		"egress > kube-system k8s-app=kube-dns UDP 53",
		"egress > quavon app.kubernetes.io/name=valkey TCP 6379",
		"runner > kube-system k8s-app=kube-dns TCP 53",
		"runner > kube-system k8s-app=kube-dns UDP 53",
		"runner > quavon app.kubernetes.io/name=quavon-egress TCP 3128",
		"runner > quavon app.kubernetes.io/name=valkey TCP 6379",
		"valkey < quavon app.kubernetes.io/name=quavon-egress TCP 6379",
		"valkey < quavon-runner app.kubernetes.io/name=quavon-runner TCP 6379",
	}
	if diff := cmp.Diff(want, ways); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
}

// Secrets are referred to: nothing here holds one, and no environment does.
func TestPodsNameWhatTheyMount(t *testing.T) {
	for name, pod := range pods(t) {
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if c.Image != "quavon" || c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: %s: image %q, resources %v", name, c.Name, c.Image, c.Resources)
			}
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: %s mounts %s, which isn't a volume", name, c.Name, m.Name)
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					t.Errorf("%s: %s has a secret in its environment: %s", name, c.Name, e.Name)
				}
			}
		}
	}
}
