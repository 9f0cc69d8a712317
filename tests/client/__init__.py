"""What commands and servers share: `planloop.client`."""
