package preemption

import "context"

// maxDeviceSteps is the number of steps that the allocator of devices may take in one PostFilter, or in the search for
// a gang's plan. It is enough for some 100,000 searches for one of eight equal devices, which take a few seconds.
const maxDeviceSteps = 1 << 22

// SearchBudget is the number of steps that the searches for devices in one PostFilter, or in one rehearsal, may still
// take together. The context carries it to the Filter of DynamicResources.
type SearchBudget struct{ left int }

// budgetKey is the key of the SearchBudget in a context.
type budgetKey struct{}

// WithBudget returns a context with a new budget for the searches for devices in a rehearsal.
func WithBudget(ctx context.Context) context.Context { return withBudget(ctx, maxDeviceSteps) }

// withBudget returns a context with a new budget.
func withBudget(ctx context.Context, steps int) context.Context {
	return context.WithValue(ctx, budgetKey{}, &SearchBudget{steps})
}

// BudgetOf returns the budget of a context, nil outside PostFilter and rehearsals.
func BudgetOf(ctx context.Context) *SearchBudget {
	b, _ := ctx.Value(budgetKey{}).(*SearchBudget)
	return b
}

// Left returns the number of steps that are left, which is negative after a search that took more. A nil budget has
// none.
func (b *SearchBudget) Left() int {
	if b == nil {
		return 0
	}
	return b.left
}

// Spend subtracts the steps that a search has taken.
func (b *SearchBudget) Spend(steps int) {
	if b != nil {
		b.left -= steps
	}
}
