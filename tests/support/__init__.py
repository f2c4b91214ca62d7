"""What tests share: real servers, a clock that can be turned, and data that several suites walk over."""
