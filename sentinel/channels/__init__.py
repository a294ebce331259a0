"""How a person is reached: one module a channel, which holds what its route may say and how a notice is delivered, and one row in
`registry`. What is delivered, and when, the engine decides; the page's case is made in `sentinel.paging`."""
