(ns reply)

(defn reply [body type]
  {:body (if (pos? (alength ^bytes body)) body (.getBytes "nothing to echo")) :type type})
