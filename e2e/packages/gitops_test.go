package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

const gitopsPage = "../../docs/gitops.md"

// state is a status as the operator writes it, and what tools make of it.
type state struct {
	row            string // of the table in docs/gitops.md
	phase          string
	ready, stalled string
	argo, kstatus  string
}

var states = []state{
	{"Completed", "Completed", "True", "False", "Healthy", "Current"},
	{"Completed, too few pods available", "Completed", "False", "False", "Progressing", "InProgress"},
	{"Pending, Progressing, RollingBack", "Pending", "False", "False", "Progressing", "InProgress"},
	{"Pending, Progressing, RollingBack", "Progressing", "False", "False", "Progressing", "InProgress"},
	{"Pending, Progressing, RollingBack", "RollingBack", "False", "False", "Progressing", "InProgress"},
	{"AwaitingApproval, Paused", "AwaitingApproval", "False", "False", "Suspended", "InProgress"},
	{"AwaitingApproval, Paused", "Paused", "False", "False", "Suspended", "InProgress"},
	{"Stalled", "Stalled", "False", "True", "Degraded", "Failed"},
	{"RolledBack", "RolledBack", "False", "False", "Degraded", "InProgress"},
}

func (s state) object(observed int64) object {
	condition := func(kind, holds string) any {
		return object{"type": kind, "status": holds, "reason": "Because", "message": "", "observedGeneration": observed}
	}
	return object{
		"apiVersion": "grayrollout.dev/v1alpha1",
		"kind":       "GrayRollout",
		"metadata":   object{"name": "web", "namespace": "shop", "generation": int64(2)},
		"status": object{
			"phase":              s.phase,
			"message":            "what it waits for",
			"observedGeneration": observed,
			"conditions": []any{
				condition("Ready", s.ready), condition("Progressing", "False"),
				condition("AwaitingApproval", "False"), condition("Stalled", s.stalled),
			},
		},
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(gitopsPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The health check in docs/gitops.md, run as Argo CD runs it, says what the table beside it says.
func TestArgoHealth(t *testing.T) {
	page := readPage(t)
	block := regexp.MustCompile("(?s)```lua\n(.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("no Lua in the page")
	}
	for _, s := range states {
		if got, message := argoHealth(t, block[1], s.object(2)); got != s.argo || message != "what it waits for" {
			t.Errorf("%s: %s (%s), want %s", s.row, got, message, s.argo)
		}
		if !strings.Contains(page, "| "+strings.Join([]string{s.row, s.argo, s.kstatus}, " | ")+" |") {
			t.Errorf("the table has no row %s with %s and %s", s.row, s.argo, s.kstatus)
		}
	}
	fresh := object{"metadata": object{"generation": int64(1)}}
	for _, unseen := range []object{fresh, states[0].object(1)} {
		if got, _ := argoHealth(t, block[1], unseen); got != "Progressing" {
			t.Errorf("not seen yet: %s", got)
		}
	}
}

func argoHealth(t *testing.T, script string, o object) (health, message string) {
	t.Helper()
	vm := lua.NewState()
	defer vm.Close()
	vm.SetGlobal("obj", toLua(vm, o))
	if err := vm.DoString(script); err != nil {
		t.Fatal(err)
	}
	result := vm.Get(-1).(*lua.LTable)
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func toLua(vm *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case object:
		table := vm.NewTable()
		for key, inner := range value {
			table.RawSetString(key, toLua(vm, inner))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, inner := range value {
			table.Append(toLua(vm, inner))
		}
		return table
	case int64:
		return lua.LNumber(value)
	default:
		return lua.LString(value.(string))
	}
}

// kstatus, by which Flux and kubectl's relatives wait, says what the table says.
func TestKstatus(t *testing.T) {
	for _, s := range states {
		result, err := status.Compute(&unstructured.Unstructured{Object: s.object(2)})
		if err != nil {
			t.Fatal(err)
		}
		if string(result.Status) != s.kstatus {
			t.Errorf("%s: %s (%s), want %s", s.row, result.Status, result.Message, s.kstatus)
		}
	}
}
