(ns reply)

(defn reply [body type]
  {:body (.getBytes (String. ^bytes body) "US-ASCII") :type type})
