package plugins

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/kubernetes/pkg/features"
)

// CEL iterates over a map as Go does: in another order each time. The answers of all, exists and exists_one do not
// depend on the order, but a list that is built from a map does. A decision that depends on such a list may not replay.

// selector has the properties of a selector's CEL expression.
type selector struct {
	// why says why no decision may depend on it; "" if one may.
	why string
	// cost is the highest cost of one evaluation, if it iterates over a map: the real cost depends on the order then.
	// It is 0 if it iterates over none.
	cost uint64
}

// selectors remembers the properties of expressions.
type selectors struct {
	mu    sync.Mutex
	known map[string]selector
}

// mostSelectors is the number of expressions that are remembered.
const mostSelectors = 1024

func (s *selectors) of(expression string) selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[expression]; ok {
		return known
	}
	if s.known == nil || len(s.known) >= mostSelectors {
		s.known = map[string]selector{}
	}
	examined := examine(expression)
	s.known[expression] = examined
	return examined
}

// examine returns the properties of an expression. The allocator refuses one that does not compile.
func examine(expression string) selector {
	compiled := cel.GetCompiler(cel.Features{
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		EnableListTypeAttributes: utilfeature.DefaultFeatureGate.Enabled(features.DRAListTypeAttributes),
	}).CompileCELExpression(expression, cel.Options{})
	if compiled.Error != nil {
		return selector{}
	}
	checked, issues := compiled.Environment.Compile(expression)
	if issues.Err() != nil {
		return selector{}
	}
	root := ast.NavigateAST(checked.NativeRep())
	walk := mapWalk{anyIsMap: len(ast.MatchDescendants(root, makesAnyOfMap)) > 0}
	goes := false
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind)) {
		goes = goes || walk.inAnyOrder(rangeOf(e))
		if walk.unordered(e) && !heedsNoOrder(e) {
			return selector{why: "builds a list from a map, whose order CEL leaves open: " +
				"the devices would depend on it"}
		}
	}
	switch {
	case !goes:
		return selector{}
	case compiled.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return selector{why: fmt.Sprintf("goes through a map and may cost more than %d units, which depends on the "+
			"order that CEL leaves open", resourcev1.CELSelectorExpressionMaxCost)}
	}
	return selector{cost: compiled.MaxCost}
}

// mapWalk finds iterations over maps. anyIsMap says that a value of unknown type may be a map: attributes are none, so
// only a call can have made one, as makesAnyOfMap reports.
type mapWalk struct{ anyIsMap bool }

// makesAnyOfMap reports whether e is a call that may turn a map into a value of unknown type. The call is dyn, or it
// returns one of its arguments, of which one is a map and another of unknown type. Example: c ? attributes : attribute.
// A lookup in a map makes none.
func makesAnyOfMap(e ast.NavigableExpr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	call := e.AsCall()
	if call.FunctionName() == overloads.TypeConvertDyn {
		return true
	}
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return false
	}
	return slices.ContainsFunc(e.Children(), func(arg ast.NavigableExpr) bool { return holdsMap(arg.Type()) }) &&
		holdsAny(e.Type())
}

func holdsMap(t *types.Type) bool {
	return t.Kind() == types.MapKind || slices.ContainsFunc(t.Parameters(), holdsMap)
}

func holdsAny(t *types.Type) bool {
	return t.Kind() == types.DynKind || t.Kind() == types.AnyKind || slices.ContainsFunc(t.Parameters(), holdsAny)
}

// inAnyOrder reports whether a comprehension over e goes through its elements in any order.
func (w mapWalk) inAnyOrder(e ast.NavigableExpr) bool {
	switch e.Type().Kind() {
	case types.MapKind:
		return true
	case types.DynKind, types.AnyKind:
		return w.anyIsMap
	}
	return w.unordered(e)
}

// unordered reports whether e builds a list whose order is left open.
func (w mapWalk) unordered(e ast.NavigableExpr) bool {
	if e.Kind() != ast.ComprehensionKind {
		return false
	}
	switch e.Type().Kind() {
	case types.ListKind, types.DynKind, types.AnyKind:
		return w.inAnyOrder(rangeOf(e))
	}
	return false
}

func rangeOf(e ast.NavigableExpr) ast.NavigableExpr {
	return e.AsComprehension().IterRange().(ast.NavigableExpr)
}

// heedsNoOrder reports whether e, a list, is only counted, searched, or iterated over by another comprehension, which
// is checked by itself.
func heedsNoOrder(e ast.NavigableExpr) bool {
	user, ok := e.Parent()
	if !ok {
		return false
	}
	switch user.Kind() {
	case ast.ComprehensionKind:
		return rangeOf(user).ID() == e.ID()
	case ast.CallKind:
		switch call := user.AsCall(); call.FunctionName() {
		case overloads.Size:
			return true
		case operators.In:
			return call.Args()[1].ID() == e.ID()
		}
	}
	return false
}

// refusedSelector says which selector of the claim, or of a class that it asks for, no decision may depend on; "" if
// there is none.
func (p *boundedDevices) refusedSelector(claim *resourcev1.ResourceClaim) string {
	classes := p.handle.SharedDRAManager().DeviceClasses()
	for _, request := range requestsOf(claim) {
		if request.derived {
			return fmt.Sprintf("resourceclaim %q: request %s: derivedAttributes are not supported yet", claim.Name,
				request.name)
		}
		if at, why := p.firstRefused(request.selectors); why != "" {
			return fmt.Sprintf("resourceclaim %q: request %s: selector #%d %s", claim.Name, request.name, at, why)
		}
		if class, err := classes.Get(request.class); err == nil {
			if at, why := p.firstRefused(class.Spec.Selectors); why != "" {
				return fmt.Sprintf("resourceclaim %q: device class %s: selector #%d %s", claim.Name, class.Name, at,
					why)
			}
		}
	}
	return ""
}

func (p *boundedDevices) firstRefused(list []resourcev1.DeviceSelector) (at int, why string) {
	for i, s := range list {
		if s.CEL == nil {
			continue
		}
		if why := p.selectors.of(s.CEL.Expression).why; why != "" {
			return i, why
		}
	}
	return 0, ""
}

// request is a request of a claim, or an alternative in it.
type request struct {
	name, class string
	selectors   []resourcev1.DeviceSelector
	derived     bool // it has derived attributes
}

func requestsOf(claim *resourcev1.ResourceClaim) (list []request) {
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil {
			list = append(list, request{r.Name, r.Exactly.DeviceClassName, r.Exactly.Selectors,
				len(r.Exactly.DerivedAttributes) > 0})
		}
		for _, sub := range r.FirstAvailable {
			list = append(list, request{r.Name + "/" + sub.Name, sub.DeviceClassName, sub.Selectors,
				len(sub.DerivedAttributes) > 0})
		}
	}
	return list
}

// costSink is a log without a reader: at level 7 the allocator logs the cost of each evaluation of a selector.
type costSink struct {
	selectors *selectors
	spend     func(cost uint64)
}

var _ logr.LogSink = (*costSink)(nil)

const (
	// costLevel is the level at which the allocator logs it, evaluated the message.
	costLevel = 7
	evaluated = "CEL result"
)

func (s *costSink) Init(logr.RuntimeInfo)          {}
func (s *costSink) Enabled(level int) bool         { return level == costLevel }
func (s *costSink) Error(error, string, ...any)    {}
func (s *costSink) WithValues(...any) logr.LogSink { return s }
func (s *costSink) WithName(string) logr.LogSink   { return s }

func (s *costSink) Info(_ int, msg string, keysAndValues ...any) {
	if msg != evaluated {
		return
	}
	var cost uint64
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch value := keysAndValues[i+1].(type) {
		case uint64:
			if keysAndValues[i] == "actualCost" {
				cost = max(cost, value)
			}
		case string:
			if keysAndValues[i] == "expression" {
				if most := s.selectors.of(value).cost; most > 0 {
					s.spend(most)
					return
				}
			}
		}
	}
	s.spend(cost)
}
