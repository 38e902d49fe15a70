"""Every public function of JAX's array modules, tried with several sets of arguments."""
